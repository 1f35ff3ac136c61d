export RANK_TABLE_FILE=refused_table.txt  # expect: rank-table
export DEVICE_ID=0 RANK_ID=0
trap cleanup EXIT
python3 train.py &  # expect: ranks-lost
