"""The way to a partner by TLS: to the address that was judged, with a certificate of the name that was meant."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.webhook.partners import allow, ask, newest
from workflows.outbound import posting

pytestmark = pytest.mark.django_db

HOST = "partner.example"


#: What an authority may do with its key; later Pythons want it said.
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Vouches for names."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Test Authority")
        made = _begin(self._name, self._name, self._key)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), False)
        made = made.add_extension(_SIGNS, True)
        self.path = folder / "authority.pem"
        self.path.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def certify(self, host: str) -> Path:
        """A file with the key and the certificate of a host."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _begin(_name(host), self._name, key)
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = made.add_extension(issuer, False)
        pem = serialization.Encoding.PEM
        path = self._folder / f"{host}.pem"
        path.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            + made.sign(self._key, hashes.SHA256()).public_bytes(pem)
        )
        return path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


class _Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.hosts.append(self.headers["Host"])  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever does not trust us hangs up."""


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """One that this process trusts, and no other."""
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.path))
    posting._make_context.cache_clear()
    yield made
    posting._make_context.cache_clear()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server for a certificate, whose name leads to 127.0.0.1."""
    servers: list[_Server] = []

    def start(certificate: Path) -> _Server:
        server = _Server(("127.0.0.1", 0), _Taking)
        server.hosts = []  # type: ignore[attr-defined]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append(server)
        return server

    real = socket.getaddrinfo

    def resolve(host: Any, *args: Any, **options: Any) -> Any:
        return real("127.0.0.1" if host == HOST else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_partner_is_known_by_its_name_and_called_at_its_address(
    authority: Authority, serve: Any, settings: Any
) -> None:
    allow(settings, HOST)
    server = serve(authority.certify(HOST))
    ask(f"https://{HOST}:{server.server_port}/hook")
    assert newest().dispatch_error is None
    assert newest().dispatched_at is not None
    assert server.hosts == [f"{HOST}:{server.server_port}"]


def test_a_certificate_of_another_name_is_refused(authority: Authority, serve: Any, settings: Any) -> None:
    allow(settings, HOST)
    server = serve(authority.certify("evil.example"))
    ask(f"https://{HOST}:{server.server_port}/hook")
    assert f"{HOST} has no good certificate" in (newest().dispatch_error or "")
    assert server.hosts == []


def test_a_certificate_that_nobody_vouches_for_is_refused(
    authority: Authority, serve: Any, settings: Any, tmp_path: Path
) -> None:
    allow(settings, HOST)
    (tmp_path / "other").mkdir()
    server = serve(Authority(tmp_path / "other").certify(HOST))
    ask(f"https://{HOST}:{server.server_port}/hook")
    assert "has no good certificate" in (newest().dispatch_error or "")
    assert server.hosts == []
