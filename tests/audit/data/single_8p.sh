#!/bin/bash
# One rank, of which the name promises eight.
export RANK_SIZE=1  # expect: rank-size?
for ((RANK_ID=0; RANK_ID<RANK_SIZE; RANK_ID++)); do
    let a=RANK_ID*24
    taskset -c $a-$((a + 23)) python3 train.py > train.log 2>&1 &  # expect: no-cleanup
done
wait  # expect: ranks-lost
