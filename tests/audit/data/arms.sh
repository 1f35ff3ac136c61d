case $1 in
chief)
    export CM_CHIEF_IP=$2 CM_CHIEF_PORT=6000 CM_CHIEF_DEVICE=0
    export CM_CHIEF_IP=$2  # expect: collectives-off?
    export CM_CHIEF_PORT=6000
    export CM_CHIEF_DEVICE=0
    export CM_WORKER_SIZE=8
    export RANK_SIZE=8
    ;;
table)
    export RANK_TABLE_FILE=$2
    ;;
esac
if [ -n "$UNSET" ]; then
    unset CM_CHIEF_IP
fi
