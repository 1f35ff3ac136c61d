#!/bin/bash
export RANK_TABLE_FILE=$1
export RANK_SIZE=8
export RANK_ID=npu8p  # expect: collectives-off?
python3 train.py
