"""The payment provider stub over HTTP: the same rules for other processes."""

import asyncio
import json
import sys
from pathlib import Path

import httpx
import pytest

from qlab.testing import PaymentProvider, ProviderClient, ProviderError

OTHER_PROCESS = """
import asyncio, sys
from qlab.testing import ProviderClient
async def main():
    async with ProviderClient(sys.argv[1]) as provider:
        print((await provider.charge("o-1", 100, key="charge:o-1")).id)
asyncio.run(main())
"""


async def test_another_process_is_charged_once() -> None:
    provider = PaymentProvider()
    async with provider.serve() as url:
        for _ in range(2):
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", OTHER_PROCESS, url, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await child.communicate()
            assert (child.returncode, out.strip()) == (0, b"ch_1")
    assert (len(provider.charges), provider.calls) == (1, 2)


async def test_client_gives_the_same_charge_and_the_same_errors() -> None:
    provider = PaymentProvider()
    async with provider.serve() as url, ProviderClient(url) as client:
        charge = await client.charge("o-1", 100, key="đơn hàng 1")
        assert charge == provider.charges[0]
        assert await client.find("o-1") == [charge]
        assert await client.find("o-2") == []
        for arguments, status in (({"key": "đơn hàng 1"}, 400), ({"key": ""}, 400), ({}, 201)):
            try:
                await client.charge("o-2", 5, **arguments)  # type: ignore[arg-type]
                got = 201
            except ProviderError as error:
                got = error.status
            assert got == status
        provider.fail_next(1, status=429)
        with pytest.raises(ProviderError, match="429"):
            await client.charge("o-3", 1)


async def test_a_body_that_is_not_ours_is_400_and_another_path_is_404() -> None:
    provider = PaymentProvider()
    async with provider.serve() as url, httpx.AsyncClient(base_url=url) as http:
        for body in (b"", b"[]", b"{", json.dumps({"order": "o"}).encode(), b"\xff"):
            assert (await http.post("/charges", content=body)).status_code == 400
        assert (await http.get("/nothing")).status_code == 404
    assert provider.calls == 0


async def test_time_out_and_lost_server_are_504() -> None:
    provider = PaymentProvider(delay=60)
    async with provider.serve() as url, ProviderClient(url, timeout=0.05) as client:
        with pytest.raises(ProviderError, match="504"):
            await client.charge("o-1", 100, key="k")
    async with ProviderClient(url) as client:
        with pytest.raises(ProviderError, match="504"):
            await client.charge("o-1", 100, key="k")
    assert provider.charges == []


async def test_unix_socket(tmp_path: Path) -> None:
    provider = PaymentProvider()
    path = str(tmp_path / "provider.sock")
    async with provider.serve(uds=path) as url, ProviderClient(url, uds=path) as client:
        await client.charge("o-1", 100)
    assert len(provider.charges) == 1


async def test_a_held_request_does_not_keep_the_server_from_ending() -> None:
    provider = PaymentProvider(delay=60)
    async with provider.serve() as url, ProviderClient(url) as client:
        held = asyncio.create_task(client.charge("o-1", 100, key="k"))
        async with asyncio.timeout(5):
            while provider.calls == 0:
                await asyncio.sleep(0.005)
    with pytest.raises(ProviderError, match="50"):
        await held
    assert provider.charges == []
