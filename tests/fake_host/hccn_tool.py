"""What a fake ``hccn_tool`` answers. Source: guides/facts/devices.md#hccn."""

from typing import Dict, Mapping, Optional

from tests.fake_host.program import Reply

__all__ = ["hccn_answers"]


def hccn_answers(
    addresses: Mapping[int, str],
    link: str = "UP",
    tls: int = 0,
    links: Optional[Mapping[int, str]] = None,
    switches: Optional[Mapping[int, int]] = None,
) -> Dict[str, Reply]:
    """The replies for devices with these addresses, IPv4 or IPv6; an empty one for none.

    Args:
        addresses: The address of each device.
        link: The state of the links.
        tls: The state of the TLS switches.
        links: The links of single devices.
        switches: The TLS switches of single devices (E: EI0016, they may differ).
    """
    answers = {"": Reply(err="hccn_tool: invalid device id\n", code=1)}
    for device, address in addresses.items():
        asked = f"-i {device}"
        four = "" if ":" in address or not address else f"ipaddr:{address}\nnetmask:255.255.255.0\n"
        answers[f"{asked} -ip -g"] = Reply(four)
        # A8: "-ip -inet6 -g -> ipv6_address:".
        six = f"ipv6_address:{address}\n" if ":" in address else ""
        answers[f"{asked} -ip -inet6 -g"] = Reply(six)
        answers[f"{asked} -link -g"] = Reply(f"link status: {(links or {}).get(device, link)}\n")
        answers[f"{asked} -tls -g"] = Reply(
            f"dev_id:{device}, tls switch[{(switches or {}).get(device, tls)}]"
            "(0:disable, 1:enable), "
            "tls alarm time threshold[60]days\n"
        )
        answers[f"{asked} -net_health -g"] = Reply("net health status: Success\n")
    return answers
