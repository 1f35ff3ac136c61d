#!/bin/bash
# Starts eight ranks of sixteen, and gives each its CPUs.
trap 'kill 0' INT TERM
export RANK_SIZE=16
export RANK_TABLE_FILE=$1
export PYTHONPATH=$2/models  # expect: python-path-replaced?
for ((i=0; i<8; i++)); do
    export RANK_ID=$((i + $3))
    export ASCEND_DEVICE_ID=$i
    let a=RANK_ID*24  # expect: binding-overruns?
    taskset -c $a-$((a + 23)) python3 train.py > train.log 2>&1 &  # expect: shared-log?
    pids="$pids $!"
done
for pid in $pids; do
    if ! wait $pid; then  # expect: ranks-lost?
        echo "rank of process $pid failed"
    fi
done
