# Each Job has groups of its own. So it neither meets what a killed pod left, nor the pods of an earlier Job that still stop.
taskmaster load --group "load-${JOB_UID%%-*}" --instances "$INSTANCES" --duration "$DURATION" --verify \
  --report /tmp/report.json "$@" &
load=$!
# The first process of a container ignores signals that it does not handle. The load checks and cleans up when it is stopped.
trap 'kill "$load"' TERM
code=0
wait "$load" || code=$?
# A signal interrupts the wait.
while kill -0 "$load" 2>/dev/null; do
  code=0
  wait "$load" || code=$?
done
# The report is the last line of the log, because a Job has no place for files.
if [ -f /tmp/report.json ]; then
  tr -d '\n' </tmp/report.json
  echo
fi
exit "$code"
