#!/bin/bash
# Each rank has a folder of its own, and another script looks at the status.
trap 'kill 0' INT TERM
export RANK_TABLE_FILE=hccl.json RANK_SIZE=8
set -e
for ((i=0; i<8; i++)); do
    export RANK_ID=$i
    mkdir -p device_$i
    cp hccl.json device_$i
    cd device_$i
    python3 ../train.py > train.log 2>&1 &
    pids="$pids $!"
    cd ..
done
for pid in $pids; do
    wait $pid
done
