for ((RANK_ID = 0; RANK_ID < 8; RANK_ID++)); do
    $COMMAND --rank $RANK_ID > $RANK_ID.log 2>&1 &  # expect: no-cleanup
    pids="$pids $!"
done
for pid in $pids; do
    if ! wait "$pid"; then
        exit 1
    fi
done
