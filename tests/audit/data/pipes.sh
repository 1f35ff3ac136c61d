export RANK_TABLE_FILE="/home/somebody/hccl.json"  # expect: machine-path
export JOB_ID=$(date +%s)
trap 'kill 0' INT TERM EXIT
for i in 0 1; do
    export RANK_ID=$i
    python3 train.py --epochs 3 2>&1 | tee $i.log &  # expect: rank-behind-pipe
    pids+=($!)
done
for pid in "${pids[@]}"; do
    wait $pid || failed=1
done
exit $failed
