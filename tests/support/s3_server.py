"""An S3-speaking server of the tests' own, on loopback."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "open-sesame-7391"}
NUMBERS = count()


@dataclass(frozen=True)
class Store:
    """A running server. It takes any key, until it is told to check."""

    endpoint: str

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to reach it."""
        return {
            **KEYS,
            "FSSPEC_S3_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"bucket{next(NUMBERS)}"
        self.client().create_bucket(Bucket=name)
        return name

    def client(self):  # type: ignore[no-untyped-def]  # boto3 ships no types
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="tester",
            aws_secret_access_key="open-sesame-7391",
        )

    def names(self, bucket: str) -> list[str]:
        """The names of all objects of a bucket."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def keys(self, bucket: str) -> dict[str, bytes]:
        """All objects of a bucket."""
        return {name: self.read(bucket, name) for name in self.names(bucket)}

    def drop(self, bucket: str) -> None:
        """Remove a bucket with all that is in it, also while somebody writes to it."""
        client = self.client()
        while True:
            for name in self.names(bucket):
                client.delete_object(Bucket=bucket, Key=name)
            try:
                client.delete_bucket(Bucket=bucket)
                return
            except client.exceptions.ClientError as error:
                if error.response["Error"]["Code"] != "BucketNotEmpty":
                    raise

    def read(self, bucket: str, name: str) -> bytes:
        return self.client().get_object(Bucket=bucket, Key=name)["Body"].read()

    def check_keys(self, after: int = 0) -> None:
        """From now on look at who asks; `after` so many requests. -1: never."""
        number = str(float("inf") if after < 0 else after).encode()
        url = f"{self.endpoint}/moto-api/reset-auth"
        asked = urllib.request.Request(url, number, {"Content-Type": "text/plain"}, method="POST")
        urllib.request.urlopen(asked).close()


@contextmanager
def server() -> Iterator[Store]:
    """A server that lives as long as the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    running = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    try:
        host, port = running.get_host_and_port()
        yield Store(f"http://{host}:{port}")
    finally:
        running.stop()
