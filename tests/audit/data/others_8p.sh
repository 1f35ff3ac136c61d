#!/bin/bash
# Another script starts each rank; its variables are set there.
export RANK_SIZE=8
export PYTHONPATH=/opt/models
export PYTHONPATH=$PYTHONPATH:/opt/more
export PYTHONPATH=/opt/models
source /usr/local/Ascend/tfplugin/set_env.sh
for d in 0 1 2 3 4 5 6 7; do ./one.sh $d & done; wait  # expect: ranks-lost no-cleanup
