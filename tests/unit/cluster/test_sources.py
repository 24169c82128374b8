"""Changes of the sources that the cluster's programs are built of."""

from pathlib import Path

from tests.cluster.programs import without_staging
from tests.cluster.trimmed_keda import trim

_GO_MOD = """module k8s.io/kubernetes

require (
\tk8s.io/api v0.0.0
\tk8s.io/klog/v2 v2.130.1
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/component-base => ./staging/src/k8s.io/component-base
)
"""
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


def test_releases_take_the_place_of_what_only_the_repository_has(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text(_GO_MOD)

    without_staging(tmp_path)

    text = (tmp_path / "go.mod").read_text()
    assert "\tk8s.io/api => k8s.io/api v0.34.4\n" in text
    assert "\tk8s.io/component-base => k8s.io/component-base v0.34.4\n" in text
    assert "./staging" not in text
    assert "\tk8s.io/klog/v2 v2.130.1\n" in text


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
