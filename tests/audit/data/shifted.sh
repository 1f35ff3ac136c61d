# A shift is no here-document, and only a case has patterns.
size=$((1<<8))
if [ -n "$1" ]; then
    export CM_CHIEF_IP=10.0.0.1
    log=$(date +%s)
    export CM_CHIEF_PORT=6000 CM_CHIEF_DEVICE=0 CM_WORKER_SIZE=8
fi
for i in 0 1 2 3 4 5 6 7; do
    RANK_ID=$i python3 train.py > $log.$i & # expect: ranks-lost no-cleanup
done
