"""A cluster that is reached over TLS alone, from Python and from the command line.

The certificate and its key serve these tests and nothing else; they hold for 127.0.0.1, a hundred years:

    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -keyout key.pem -out cert.pem -sha256 \\
        -days 36500 -nodes -subj "/CN=controlshap tests" -addext "subjectAltName=IP:127.0.0.1,DNS:localhost"
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pytest
from dataset_cases import CALL, assert_same_bits, make_explainer, make_rows

import controlshap as cs

pytestmark = pytest.mark.slow

FILES = Path(__file__).with_name("tls")
CERTIFICATE, KEY = str(FILES / "cert.pem"), str(FILES / "key.pem")
MODULE = "import numpy as np\n\ndef predict(rows):\n    return np.tanh(rows.to_numpy().sum(axis=1))\n"


def security(key: str = KEY) -> Any:
    names = ("scheduler", "worker", "client")
    own = {f"tls_{name}_{kind}": file for name in names for kind, file in (("cert", CERTIFICATE), ("key", key))}
    return distributed.Security(tls_ca_file=CERTIFICATE, require_encryption=True, **own)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        host="127.0.0.1",
        protocol="tls://",
        security=security(),
        dashboard_address=":0",
    ) as local:
        yield local


def linear(rows: Any) -> Any:
    return np.asarray(rows) @ np.linspace(-1.0, 1.0, 5)


def test_a_client_with_certificates(cluster: Any, tmp_path: Path) -> None:
    assert cluster.scheduler_address.startswith("tls://")
    explainer, rows = make_explainer(lambda rows: linear(rows) ** 2), make_rows(8)
    with distributed.Client(cluster.scheduler_address, security=security(), set_as_default=False) as client:
        result = explainer.explain_dataset(rows, tmp_path / "out", scheduler=client, part_rows=4, **CALL)
    assert result.n_done == 2
    assert_same_bits(cs.load(tmp_path / "out"), explainer(rows, keep=False, **CALL))


def test_without_certificates_it_is_refused_before_anything_is_tried(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(cs.InvalidArgumentError, match="needs certificates"):
        make_explainer().explain_dataset(make_rows(8), tmp_path / "out", scheduler=cluster.scheduler_address, **CALL)


def test_the_command_line(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "tls_model.py").write_text(MODULE)
    make_rows(8).to_csv(tmp_path / "rows.csv", index=False)
    make_rows(6, seed=2).to_csv(tmp_path / "background.csv", index=False)
    command = [
        sys.executable, "-m", "controlshap", "explain", "tls_model:predict", "rows.csv",
        "--background", "background.csv",
        "--out", "out", "--budget", "200", "--rng", "0", "--scheduler", cluster.scheduler_address,
    ]  # fmt: skip
    files = ["--tls-ca", CERTIFICATE, "--tls-cert", CERTIFICATE, "--tls-key", KEY]

    def run(*more: str) -> Any:
        return subprocess.run(
            [*command, *more], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False
        )

    done = run()
    assert done.returncode == 1, done.stderr
    assert "needs certificates" in done.stderr
    done = run(*files)
    assert done.returncode == 0, done.stderr
    assert len(cs.load(tmp_path / "out")) == 8
