#!/bin/bash
# The same, and each rank is waited for.
export RANK_SIZE=8
trap 'kill 0' INT TERM
train_one() { RANK_ID=$1 python3 train.py > log_$1 2>&1; }
show_dots() { while true; do echo -n .; sleep 1; done; }
show_dots &
dots=$!
for i in $(seq 0 7); do
    train_one $i &
    pids="$pids $!"
done
for pid in $pids; do
    wait $pid || exit 1
done
kill $dots
