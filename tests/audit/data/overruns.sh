#!/bin/bash
# The rank's number of all sixteen, on the line that binds.
export RANK_SIZE=16
trap 'kill $(jobs -p)' EXIT
for i in 0 1 2 3 4 5 6 7; do
    export RANK_ID=$((8 * $1 + i))
    taskset -c $((RANK_ID*24))-$((RANK_ID*24+23)) python3 train.py > log_$i 2>&1 &  # expect: binding-overruns?
done
for p in $(jobs -p); do wait $p || exit 1; done
