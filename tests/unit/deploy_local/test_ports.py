import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local import ports
from deploy.local.errors import StackError
from deploy.local.ports import allocate, choose_free, is_free


@pytest.fixture
def taken() -> Iterator[int]:
    """A port somebody else listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_somebody_listens_on_is_not_free(taken: int) -> None:
    assert not is_free(taken)


def test_ports_are_remembered(tmp_path: Path) -> None:
    first = allocate(tmp_path / "ports.json", ["gateway", "kafka"], {}, {})
    again = allocate(tmp_path / "ports.json", ["gateway", "kafka"], {}, {})
    assert first == again
    assert len(set(first.values())) == 2


def test_a_remembered_port_that_was_taken_is_chosen_anew(tmp_path: Path, taken: int) -> None:
    file = tmp_path / "ports.json"
    file.write_text(json.dumps({"gateway": taken, "kafka": (kafka := choose_free())}))
    ports = allocate(file, ["gateway", "kafka"], {}, {})
    assert ports["gateway"] != taken
    assert ports["kafka"] == kafka


def test_the_preferred_port_is_used_once_it_is_free(tmp_path: Path, taken: int) -> None:
    wish = choose_free()
    assert allocate(tmp_path / "a", ["gateway"], {}, {"gateway": wish}) == {"gateway": wish}
    assert allocate(tmp_path / "b", ["gateway"], {}, {"gateway": taken})["gateway"] != taken


def test_an_asked_port_must_be_free_and_is_not_remembered(tmp_path: Path, taken: int) -> None:
    file, asked = tmp_path / "ports.json", choose_free()
    usual = allocate(file, ["gateway"], {}, {})
    assert allocate(file, ["gateway"], {"gateway": asked}, {}) == {"gateway": asked}
    assert allocate(file, ["gateway"], {}, {}) == usual
    with pytest.raises(StackError, match=f"Port {taken}, set by AES_GATEWAY_PORT, is in use"):
        allocate(file, ["gateway"], {"gateway": taken}, {})


def test_no_port_is_chosen_twice_before_somebody_listens_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_untried", [])
    chosen = [choose_free() for _ in range(300)]
    assert len(set(chosen)) == len(chosen)
