"""Who a pod is, as Kubernetes tells it."""

from ascend_session.cluster.kubernetes import pod_names

NAMES = {"POD_NAME": "a", "XDL_IP": "b", "HOST_IP": "c", "NODE_IP": "d", "POD_IP": "e"}


def test_names_that_others_use_too_count_in_a_pod_only() -> None:
    assert set(pod_names(NAMES).values()) == {"POD_NAME", "XDL_IP", "POD_IP"}
    in_pod = pod_names({**NAMES, "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert set(in_pod.values()) == set(NAMES)
