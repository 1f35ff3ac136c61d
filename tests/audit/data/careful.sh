#!/bin/sh
set -e
if [ -n "$TABLE" ]; then
    export RANK_TABLE_FILE=$TABLE
else
    export CM_CHIEF_IP=10.0.0.1 CM_CHIEF_PORT=6000 CM_CHIEF_DEVICE=0 CM_WORKER_SIZE=2
fi
cat <<EOF
wait, this is text & nothing else
EOF
trap 'kill 0' INT TERM EXIT
for i in 0 1; do
    export RANK_ID=$i  # wait for nothing here
    python3 train.py > $i.log 2>&1 & pid=$!
    pids="$pids $pid"
done
for pid in $pids; do
    wait $pid
done
