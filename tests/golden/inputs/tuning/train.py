import os
import shutil

print(os.environ["AOE_MODE"], os.environ["ASCEND_DEVICE_ID"])
folder = os.path.join(os.environ["ASCEND_PROCESS_LOG_PATH"], "debug", "plog")
os.makedirs(folder)
with open(os.path.join(folder, "plog-1_2.log"), "w") as log:
    log.write("[GEOP] in tune mode, training graph handled by tools.\n")
name = "aoe_result_opat_20240315_101530123_4711.json"
shutil.copy(name, os.path.join(os.environ["ASCEND_WORK_PATH"], name))
