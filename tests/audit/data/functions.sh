#!/bin/bash
# A function that trains one rank is called in the background.
export RANK_SIZE=8
export JOB_ID=$1
train_one() {
    export RANK_ID=$1
    python3 train.py > log_$1 2>&1
}
function show_dots {
    while true; do echo -n .; sleep 1; done
}
show_dots &
for i in $(seq 0 7); do
    train_one $i &  # expect: no-cleanup
done
wait  # expect: ranks-lost
