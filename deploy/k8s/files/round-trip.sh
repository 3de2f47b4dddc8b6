# Enqueues, leases and completes a task through the address for clients. The queue is of this run only.
set -eu
queue="helm-test#$POD_UID"
data="data of $POD_UID"
taskmaster enqueue "$queue" "$data" --pid a
taskmaster lease "$queue" --lease-duration 1m --raw >/tmp/data 2>/tmp/task
[ "$(cat /tmp/data)" = "$data" ]
taskmaster complete --task /tmp/task
if taskmaster lease "$queue"; then
  echo 'the completed task is still there' >&2
  exit 1
fi
taskmaster members
echo 'A task was enqueued, leased and completed.'
