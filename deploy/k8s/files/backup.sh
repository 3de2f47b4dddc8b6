set -eu
limit=
if [ "$MAX_BYTES_PER_SECOND" -gt 0 ]; then limit="--max-bytes-per-second $MAX_BYTES_PER_SECOND"; fi
case "$PLACE" in
s3://*)
  exec taskmaster backup create --to "${PLACE%/}/$JOB_NAME" $limit
  ;;
esac
# Names of Jobs end in the minute for which they were scheduled, so the latest backup is the last by name.
complete() { for manifest in "$PLACE"/*/manifest.json; do [ -f "$manifest" ] && basename "$(dirname "$manifest")"; done | sort; }
base=$(complete | tail -n 1)
if [ -n "$base" ] && [ "$base" != "$JOB_NAME" ]; then base="--base $PLACE/$base"; else base=; fi
taskmaster backup create --to "$PLACE/$JOB_NAME" $base $limit
taskmaster backup verify "$PLACE/$JOB_NAME"
complete | head -n "-$KEEP" | while read -r old; do
  echo "deleting the backup $old"
  rm -r "${PLACE:?}/$old"
done
