"""Bare kernels, as nbval starts them and ends them: each gets its own servers, and SIGKILL leaves none."""

import contextlib
import json
from collections.abc import Iterator

import psutil
import pytest
from jupyter_client import BlockingKernelClient, KernelManager

from tests.embedded.owners import alive, wait_until

CELL = """
import json
from qlab.embedded import start
servers = start()
print(json.dumps([servers.redis_url, servers.pg_dsn]))
"""


@pytest.fixture
def kernels(clean_environment, tmp_path) -> Iterator[list[tuple[KernelManager, BlockingKernelClient]]]:
    """Six kernels that have been asked to start servers, all at the same time."""
    own = {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), "IPYTHONDIR": str(tmp_path / "ipython")}
    started = []
    with contextlib.ExitStack() as closing:
        for _ in range(6):
            manager = KernelManager(connection_file=str(tmp_path / f"{len(started)}.json"))
            manager.start_kernel(env=clean_environment | own)
            closing.callback(manager.shutdown_kernel, now=True)
            client = manager.blocking_client()
            client.start_channels()
            closing.callback(client.stop_channels)
            started.append((manager, client))
        for _, client in started:
            client.wait_for_ready(timeout=60)
        yield started


def output_of(client: BlockingKernelClient, request: str) -> str:
    """What the cell printed. Raises when it failed."""
    text = ""
    while True:
        message = client.get_iopub_msg(timeout=90)
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        assert kind != "error", "\n".join(content["traceback"])
        if kind == "stream":
            text += content["text"]
        if kind == "status" and content["execution_state"] == "idle":
            return text


def test_six_kernels_at_once_get_servers_and_sigkill_leaves_none(kernels):
    requests = [client.execute(CELL) for _, client in kernels]
    addresses = [
        json.loads(output_of(client, one)) for (_, client), one in zip(kernels, requests, strict=True)
    ]
    assert len({address for pair in addresses for address in pair}) == 12
    processes = [psutil.Process(manager.provisioner.pid) for manager, _ in kernels]
    servers = [child for process in processes for child in process.children(recursive=True)]
    assert sum("valkey-server" in " ".join(server.cmdline()) for server in servers) == 6
    for process in processes:
        process.kill()
    wait_until(lambda: not alive(servers))
