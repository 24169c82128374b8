"""Support of the scenarios in tests/cluster: certificates, complete rollouts, and trimmed sources."""

from pathlib import Path

import pytest
from cryptography import x509

from tests.cluster.certificates import make_all
from tests.cluster.cluster import complete
from tests.cluster.trimmed_keda import trim


def test_all_certificates_are_signed_by_an_authority(tmp_path: Path) -> None:
    make_all(tmp_path, "node", "10.77.0.1", "10.79.0.1")
    certificates = {file.stem: x509.load_pem_x509_certificate(file.read_bytes()) for file in tmp_path.glob("*.crt")}
    authorities = [certificates.pop("ca"), certificates.pop("front-ca")]
    assert len(certificates) == 8
    for name, certificate in certificates.items():
        (issuer,) = [one for one in authorities if one.subject == certificate.issuer]
        certificate.verify_directly_issued_by(issuer)
        assert (issuer is authorities[1]) is (name == "front")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}, True),
        # Not looked at since the last change.
        ({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}, False),
        # An old pod is still there.
        ({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2}, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}, False),
        ({}, False),
    ],
)
def test_a_rollout_is_complete_when_all_replicas_are_new_and_ready(status: dict[str, int], expected: bool) -> None:
    assert complete(2, 2, status) is expected


_BUILDER = """package scaling

func buildScaler(triggerType string) (scalers.Scaler, error) {
\tswitch triggerType {
\tcase "aws-sqs-queue":
\t\treturn scalers.NewAwsSqsQueueScaler(config)
\tcase "kafka":
\t\treturn scalers.NewKafkaScaler(ctx, config)
\tcase "postgresql":
\t\treturn scalers.NewPostgreSQLScaler(ctx, config)
\tdefault:
\t\treturn nil, fmt.Errorf("no scaler found for type: %s", triggerType)
\t}
}
"""


def test_keda_keeps_the_scalers_that_the_overlay_uses(tmp_path: Path) -> None:
    scalers = tmp_path / "pkg" / "scalers"
    builder = tmp_path / "pkg" / "scaling" / "scalers_builder.go"
    for directory in (scalers, builder.parent):
        directory.mkdir(parents=True)
    builder.write_text(_BUILDER)
    for name in ("aws_sqs_queue_scaler", "kafka_scaler", "kafka_scaler_test", "scaler"):
        (scalers / f"{name}.go").touch()

    trim(tmp_path)

    assert "Sqs" not in builder.read_text()
    assert builder.read_text().count("\tcase ") == 2
    assert builder.read_text().endswith(_BUILDER.partition("\tdefault:")[2])
    assert sorted(file.name for file in scalers.iterdir()) == ["kafka_scaler.go", "left_out.go", "scaler.go"]
