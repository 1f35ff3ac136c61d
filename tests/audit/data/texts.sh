#!/bin/bash
# Texts of several lines, whose last line starts the rank, and one that reads like a rank.
export RANK_SIZE=8
trap 'kill 0' INT TERM
export JOB_ID=1
export JOB_ID=$(date +%s)
usage="don't call this
wait $1 &
python3 train.py &"
here=$(cd "$(dirname "$(echo "$0" | sed 's/"//')")"; pwd)
for ((i=0; i<8; i++)); do
    export RANK_ID=$i
    python3 "$here/train.py" \
        --params "
          layers: 2  # of all
          rate: 0.1" \
        --out out > log_$i 2>&1 &
done
wait  # expect: ranks-lost
