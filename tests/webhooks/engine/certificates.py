"""Certificates for receivers, valid or not, signed by a root of our own."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A root, with its certificate in `file`."""

    def __init__(self, folder: Path, name: str = "root") -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Test {name}")])
        self.file = folder / f"{name}.pem"
        builder = self._builder(self.name, self.key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.certificate = builder.sign(self.key, hashes.SHA256())
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def context(self, *names: str, days: int = 30, self_signed: bool = False) -> ssl.SSLContext:
        """A server's TLS context with a certificate for `names` that ends in `days` (negative: has ended)."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certified(*names, days=days, self_signed=self_signed))
        return context

    def certified(self, *names: str, days: int = 30, self_signed: bool = False) -> Path:
        """The file of such a certificate, with its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = self._builder(subject, key, days).add_extension(alternatives, critical=False)
        if self_signed:
            certificate = builder.issuer_name(subject).sign(key, hashes.SHA256())
        else:
            certificate = builder.issuer_name(self.name).sign(self.key, hashes.SHA256())
        file = self.folder / f"{certificate.serial_number}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return file

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 30) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=60))
        builder = builder.not_valid_after(now + timedelta(days=days))
        return builder.issuer_name(self.name) if subject == self.name else builder


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
