#!/bin/bash
# Starts eight ranks, as most do.
export RANK_TABLE_FILE=nowhere.json  # expect: collectives-off
export RANK_SIZE=8
export CM_WORKER_SIZE=8
export JOB_ID=10087  # expect: fixed-job-id
corenum=`cat /proc/cpuinfo | grep processor | wc -l`
for ((i=0; i<8; i++)); do
    export RANK_ID=$i
    export ASCEND_DEVICE_ID=$i
    let a=RANK_ID*${corenum}/8
    let b=RANK_ID+1
    nohup taskset -c $a-$b python3 train.py > $i.log 2>&1 &  # expect: no-cleanup
done
wait  # expect: ranks-lost
echo "Final Performance"
