"""The samples of the manual's page on tuning, completed to valid JSON, and files like them."""

import json

TIME = "20240315_101530123"

OPERATOR_TASK = [
    {"basic": {"tuning_name": "Tuning task name", "tuning_time(s)": 44}},
    {
        "OPAT": {
            "opat_tuning_result": "tuning successful",
            "repo_modified_operators": [
                {
                    "op_name": "bert/encoder/layer_10/attention/self/Softmax_OPAT_0",
                    "op_type": "SoftmaxV2",
                    "tune_performance": {
                        "Format": {
                            "performance_after_tune(us)": 26.876,
                            "performance_before_tune(us)": 58.781,
                            "performance_improvement": "118.71%",
                            "update_mode": "add",
                        }
                    },
                },
                {
                    "op_name": "bert/encoder/layer_8/attention/output/dense/MatMul"
                    "bert/encoder/layer_8/attention/output/add",
                    "op_type": "MatMulV2",
                    "tune_performance": {
                        "Schedule": {
                            "performance_after_tune(us)": 15.71,
                            "performance_before_tune(us)": 16.71,
                            "performance_improvement": "6.37%",
                            "update_mode": "add",
                        }
                    },
                },
            ],
            "repo_summary": {
                "repo_add_num": 2,
                "repo_hit_num": 10,
                "repo_reserved_num": 10,
                "repo_unsatisfied_num": 1,
                "repo_update_num": 0,
                "total_num": 13,
            },
        }
    },
]

SUBGRAPH_TASK = [
    {"basic": {"tuning_name": "Tuning task name", "tuning_time(s)": 19}},
    {
        "SGAT": {
            "model_baseline_performance(ms)": 5.600486,
            "model_performance_improvement": "55.11%",
            "model_result_performance(ms)": 3.610442,
            "repo_modified_subgraphs": {
                "add_repo_subgraphs": [
                    {
                        "performance_after_tune(ms)": 3.573203,
                        "performance_before_tune(ms)": 5.58434,
                        "performance_improvement": "56.28%",
                        "repo_key": "1024942313106047484",
                    }
                ],
                "update_repo_subgraphs": [
                    {
                        "performance_after_tune(ms)": 2.573203,
                        "performance_before_tune(ms)": 4.58434,
                        "performance_improvement": "78.15%",
                        "repo_key": "1024942313106057586",
                    }
                ],
            },
            "repo_summary": {
                "repo_add_num": 1,
                "repo_hit_num": 1,
                "repo_reserved_num": 0,
                "repo_unsatisfied_num": 120,
                "repo_update_num": 1,
                "total_num": 121,
            },
        }
    },
]

# One task, as the manuals of CANN 6.2 and 6.3 have it: no key, and operators below a word.
OLD_TASK = [
    {"basic": {"tuning_name": "resnet", "tuning_time(s)": 1827}},
    {
        "OPAT": {
            "model_baseline_performance(ms)": 113.588725,
            "model_performance_improvement": "0.31%",
            "model_result_performance(ms)": 113.236731,
            "opat_tuning_result": "tuning successful",
            "repo_modified_operators": {
                "add_repo_operators": [
                    {
                        "op_name": "strided_slice_10",
                        "op_type": "stridedsliced",
                        "performance_after_tune(us)": 99,
                        "performance_before_tune(us)": 134,
                        "performance_improvement": "35.35%",
                    }
                ]
            },
            "repo_summary": {
                "repo_add_num": 1,
                "repo_hit_num": 17,
                "repo_reserved_num": 17,
                "repo_unsatisfied_num": 0,
                "repo_update_num": 0,
                "total_num": 18,
            },
        }
    },
]


def key(number=0):
    """The key of a task."""
    return f"report_{TIME}_{4711 + number}"


def text(*tasks, indent=1):
    """A file of tasks; pairs of key and task where the key matters."""
    pairs = [one if isinstance(one, tuple) else (key(n), one) for n, one in enumerate(tasks)]
    inner = (f"{json.dumps(name)}: {json.dumps(task, indent=indent)}" for name, task in pairs)
    return "{\n" + ",\n".join(inner) + "\n}\n"


def content(*tasks, indent=1):
    """The same as bytes."""
    return text(*tasks, indent=indent).encode()


def operator(name, before, after, kind="MatMulV2", way="Schedule", mode="add", said=None):
    """An operator as AOE writes it."""
    improvement = said or f"{100 * (before / after - 1):.2f}%"
    return {
        "op_name": name,
        "op_type": kind,
        "tune_performance": {
            way: {
                "performance_after_tune(us)": after,
                "performance_before_tune(us)": before,
                "performance_improvement": improvement,
                "update_mode": mode,
            }
        },
    }


def task(*operators, outcome="tuning successful", failed=None, **counts):
    """A task of operators, whose counts add up unless they are given."""
    modes = [way["update_mode"] for one in operators for way in one["tune_performance"].values()]
    summary = {
        "repo_add_num": modes.count("add"),
        "repo_hit_num": modes.count("update"),
        "repo_reserved_num": 0,
        "repo_unsatisfied_num": 0,
        "repo_update_num": modes.count("update"),
        "total_num": len(modes),
        **counts,
    }
    tuned = {
        "opat_tuning_result": outcome,
        "repo_modified_operators": list(operators),
        "repo_summary": summary,
    }
    if failed is not None:
        tuned["tuning_failed_operators"] = failed
    return [{"basic": {"tuning_name": "net", "tuning_time(s)": 7.5}}, {"OPAT": tuned}]


def many(number):
    """A task of so many operators."""
    return task(
        *(
            operator(f"bert/encoder/layer_{n}/MatMul", 20.0 + n % 97, 10.0 + n % 89)
            for n in range(number)
        )
    )
