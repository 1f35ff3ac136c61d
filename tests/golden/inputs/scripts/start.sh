#!/bin/sh
export RANK_SIZE=8
for i in 0 1 2 3 4 5 6 7; do
    export DEVICE_ID=$i RANK_ID=$i
    python train.py &
done
wait
