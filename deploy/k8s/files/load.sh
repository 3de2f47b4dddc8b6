# The report is the last line of the log, because a Job has no place for files.
code=0
taskmaster load --instances "$INSTANCES" --duration "$DURATION" --verify --report /tmp/report.json "$@" || code=$?
if [ -f /tmp/report.json ]; then
  tr -d '\n' </tmp/report.json
  echo
fi
exit "$code"
