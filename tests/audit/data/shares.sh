#!/bin/bash
# Two servers of eight devices: CPUs by the rank's share of all, and by the device on its server.
export RANK_SIZE=16
trap 'kill $(jobs -p)' EXIT
cores=$(nproc)
for ((RANK_ID=8*$1; RANK_ID<8*$1+8; RANK_ID++)); do
    export RANK_ID
    export ASCEND_DEVICE_ID=$((RANK_ID-8*$1))
    seed=$((RANK_ID*100))
    let a=RANK_ID*${cores}/${RANK_SIZE}
    let b=RANK_ID+1
    let c=b*${cores}/${RANK_SIZE}-1
    let d=RANK_ID%8*24
    if [ "$2" = shares ]; then
        taskset -c $a-$c python3 train.py --seed $seed > log_$RANK_ID 2>&1 &
    else
        taskset -c $d-$((d+23)) python3 train.py > log_$RANK_ID 2>&1 &
    fi
done
for p in $(jobs -p); do wait $p || exit 1; done
