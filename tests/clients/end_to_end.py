"""The built sidecar, asked by an independent client (Python's grpcio).

    python end_to_end.py PROGRAM

TCP, Unix socket, TLS and mTLS, certificates that change, identities, health
and reflection, draining. Messages come from the project's own .proto files.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = sys.argv[1]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def messages(folder):
    """Classes of the project's messages, by name."""
    out = folder / "set.bin"
    protos = sorted(str(p.relative_to(ROOT / "proto")) for p in (ROOT / "proto").rglob("*.proto"))
    done = protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--descriptor_set_out={out}", *protos])
    assert done == 0
    from google.protobuf import descriptor_pb2

    pool = descriptor_pool.DescriptorPool()
    files = {f.name: f for f in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file}

    def add(name):
        for dependency in files[name].dependency:
            add(dependency)
        pool.Add(files[name])

    for name in files:
        add(name)

    def of(name):
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"stepcast.v1.{name}"))

    return of


class Sidecar:
    def __init__(self, folder, *args):
        self.port, self.metrics = free_port(), free_port()
        self.log = open(folder / f"sidecar-{self.port}.log", "w+")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--listen", f"127.0.0.1:{self.port}", "--metrics", f"127.0.0.1:{self.metrics}", *map(str, args)],
            stderr=self.log,
        )
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.metrics), 0.1).close()
                socket.create_connection(("127.0.0.1", self.port), 0.1).close()
                break
            except OSError:
                time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def call(channel, method, request, response, **options):
    rpc = channel.unary_unary(
        f"/stepcast.v1.{method}",
        request_serializer=lambda m: m.SerializeToString(),
        response_deserializer=response.FromString,
    )
    return rpc(request, timeout=10, **options)


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


def authority(folder, name):
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj", f"/CN={name}",
            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt")


def certificate(folder, name, ca, subject):
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={subject}",
            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr")
    (folder / "san").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    openssl("x509", "-req", "-in", folder / f"{name}.csr", "-CA", folder / f"{ca}.crt", "-CAkey", folder / f"{ca}.key",
            "-CAcreateserial", "-days", 2, "-extfile", folder / "san", "-out", folder / f"{name}.crt")


def credentials(folder, ca, client=None):
    read = lambda name: (folder / name).read_bytes()
    if client is None:
        return grpc.ssl_channel_credentials(read(f"{ca}.crt"))
    return grpc.ssl_channel_credentials(read(f"{ca}.crt"), read(f"{client}.key"), read(f"{client}.crt"))


def refused(action, *codes):
    try:
        action()
    except grpc.RpcError as error:
        assert error.code() in codes, error
        return error
    raise AssertionError(f"expected one of {codes}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        of = messages(folder)
        request = of("PredictRequest")()
        request.job.workload.catalogue_name = "resnet50"
        request.job.batch_size = 32
        request.job.strategy.all_reduce.SetInParent()
        predict = lambda channel, **o: call(channel, "Predictor/Predict", request, of("PredictResponse"), **o)
        calibration = lambda channel, **o: call(channel, "Calibration/Get", of("GetRequest")(), of("GetResponse"), **o)

        def importing(channel, **options):
            message = of("ImportRequest")(file=calibration(channel).file)
            return call(channel, "Calibration/Import", message, of("ImportResponse"), **options)

        token = folder / "tokens"
        token.write_text("secret-one\n")
        with Sidecar(folder, "--uds", folder / "s.sock", "--token-file", token) as sidecar:
            channel = grpc.insecure_channel(f"127.0.0.1:{sidecar.port}")
            answer = predict(channel).prediction
            assert answer.workers == 3 and answer.iteration_time_seconds > 0, answer
            print("TCP: a step of", round(answer.iteration_time_seconds, 4), "s")
            error = refused(lambda: importing(channel), grpc.StatusCode.PERMISSION_DENIED)
            assert "allowed identity" in error.details()
            bearer = lambda t: (("authorization", f"Bearer {t}"),)
            refused(lambda: importing(channel, metadata=bearer("wrong")), grpc.StatusCode.PERMISSION_DENIED)
            version = importing(channel, metadata=bearer("secret-one")).version
            assert calibration(channel).version == version, "the imported one is in force"
            back = call(channel, "Calibration/Rollback", of("RollbackRequest")(), of("RollbackResponse"), metadata=bearer("secret-one"))
            assert back.version == "" and calibration(channel).version == ""
            # Without the option grpcio puts the path where HTTP/2 wants a host.
            local = [("grpc.default_authority", "localhost")]
            socket_channel = grpc.insecure_channel(f"unix:{folder / 's.sock'}", local)
            assert predict(socket_channel).prediction == answer
            importing(socket_channel)
            print("Unix socket: the same answer, and its owner may change things")
            report = of("ReportStepsRequest")(job_id="train", nodes=["fast-0", "fast-1"], step_seconds=[0.4] * 20)
            report.job.CopyFrom(request.job)
            rpc = socket_channel.stream_unary(
                "/stepcast.v1.Observations/ReportSteps",
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=of("ReportStepsResponse").FromString,
            )
            assert rpc(iter([report]), timeout=10).accepted_steps == 20
            jobs = call(channel, "Observations/ListJobs", of("ListJobsRequest")(), of("ListJobsResponse")).jobs
            assert [(j.job_id, j.steps, j.observed_step_seconds) for j in jobs] == [("train", 20, 0.4)], jobs
            health = channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=bytes, response_deserializer=bytes)
            assert health(b"", timeout=5) == b"\x08\x01", "serving"
            for version in ["v1", "v1alpha"]:
                reflect = channel.stream_stream(
                    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                    request_serializer=bytes, response_deserializer=bytes)
                listed = next(iter(reflect(iter([b"\x3a\x01*"]), timeout=5)))
                assert b"stepcast.v1.Predictor" in listed
            # A call under way ends; the process goes by itself.
            watch = channel.unary_stream(
                "/stepcast.v1.Inventory/WatchNodes", request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=of("WatchNodesResponse").FromString)
            stream = watch(of("WatchNodesRequest")())
            assert len(next(stream).changed) == 4
            stream.cancel()
            sidecar.process.send_signal(signal.SIGTERM)
            assert sidecar.process.wait(10) == 0
            assert not (folder / "s.sock").exists()
            print("health, reflection, reports, draining")

        authority(folder, "ca")
        authority(folder, "other")
        certificate(folder, "server", "ca", "stepcast")
        certificate(folder, "client", "ca", "scheduler-a")
        certificate(folder, "stranger", "other", "scheduler-a")
        tls = ["--tls-cert", folder / "server.crt", "--tls-key", folder / "server.key"]
        with Sidecar(folder, *tls) as sidecar:
            channel = grpc.secure_channel(f"localhost:{sidecar.port}", credentials(folder, "ca"))
            assert predict(channel).prediction.workers == 3
            plain = grpc.insecure_channel(f"127.0.0.1:{sidecar.port}")
            refused(lambda: predict(plain), grpc.StatusCode.UNAVAILABLE)
            # New certificates of another authority are taken without a restart.
            certificate(folder, "next", "other", "stepcast")
            os.replace(folder / "next.key", folder / "server.key")
            os.replace(folder / "next.crt", folder / "server.crt")
            until = time.time() + 30
            while True:
                try:
                    channel = grpc.secure_channel(f"localhost:{sidecar.port}", credentials(folder, "other"))
                    assert predict(channel).prediction.workers == 3
                    break
                except grpc.RpcError:
                    assert time.time() < until, "the new certificate was not taken"
                    time.sleep(0.5)
            print("TLS, and a certificate that changed while it ran")
        certificate(folder, "server", "ca", "stepcast")
        mtls = [*tls, "--tls-client-ca", folder / "ca.crt", "--allow-name", "scheduler-a"]
        with Sidecar(folder, *mtls) as sidecar:
            at = f"localhost:{sidecar.port}"
            channel = grpc.secure_channel(at, credentials(folder, "ca", "client"))
            assert predict(channel).prediction.workers == 3
            importing(channel)
            refused(lambda: predict(grpc.secure_channel(at, credentials(folder, "ca"))), grpc.StatusCode.UNAVAILABLE)
            refused(lambda: predict(grpc.secure_channel(at, credentials(folder, "ca", "stranger"))), grpc.StatusCode.UNAVAILABLE)
            print("mTLS: a certificate's name may change things; without one, or a stranger's, nothing")


if __name__ == "__main__":
    main()
