"""The S3 gateway of a server under test: where it listens, the first key, and a boto3 client."""

import http.client
import os
import re
import urllib.parse

from . import case, server as servers

REGION = "us-east-1"

# The setting of a server that serves S3.
LISTEN = {"s3.listen": '"127.0.0.1:0"'}


def owner_key(directory):
    """Access key and secret key of the first user, from the file in a data directory."""
    with open(os.path.join(directory, "owner.key"), encoding="utf-8") as file:
        text = file.read()
    return tuple(re.search(rf"^{name} = (\S+)$", text, re.MULTILINE).group(1) for name in ("aws_access_key_id", "aws_secret_access_key"))


class Gateway:
    """S3 of one `varve serve`, a `server` that is there or one of its own, which may be killed and started again; the address is another
    one then."""

    def __init__(self, context, settings=None, server=None, **options):
        self.context = context
        self.server = server or servers.make(context, settings={**LISTEN, **(settings or {})}, **options)
        if self.server.is_stand_in:
            raise case.Skip("a stand-in knows no objects")
        self.endpoint = None
        self.access_key = self.secret_key = None

    def start(self):
        """Starts the server and waits until it has told where S3 is; the first start writes the owner's key to its file."""
        before = self._log().count("S3:")
        self.server.start()
        self.context.wait_for(lambda: self._log().count("S3:") > before, "S3 is served", seconds=60)
        self.access_key, self.secret_key = owner_key(self.server.directory)
        self.context.check(self.secret_key not in self._log(), "the secret is not in the log")
        self.endpoint = re.findall(r"S3:\s+(\S+)", self._log())[-1]

    @property
    def address(self):
        """Host and port."""
        return self.endpoint.partition("://")[2]

    def connection(self, **options):
        """A connection for requests by presigned URLs (`target`)."""
        return http.client.HTTPConnection(*self.address.split(":"), **options)

    def environment(self):
        """What programs read that follow Amazon's habits: keys and region, and nothing of the user's own."""
        nowhere = self.context.path("no-such-file")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {**inherited, "AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key,
                "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION, "AWS_CONFIG_FILE": nowhere, "AWS_SHARED_CREDENTIALS_FILE": nowhere,
                "AWS_EC2_METADATA_DISABLED": "true", "AWS_PAGER": "", "HOME": self.context.directory}

    def client(self, keys=None, **options):
        """A boto3 client that tries nothing twice, with the first key or other `keys`; `options` go to its configuration."""
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise case.Skip("no python3-boto3") from None
        config = Config(**{"retries": {"max_attempts": 0}, "s3": {"addressing_style": "path"}, "connect_timeout": 10,
                           "read_timeout": 60, **options})
        access_key, secret_key = keys or (self.access_key, self.secret_key)
        return boto3.client("s3", endpoint_url=self.endpoint, aws_access_key_id=access_key,
                            aws_secret_access_key=secret_key, region_name=REGION, config=config)

    def _log(self):
        if not os.path.exists(self.server.log_path):
            return ""
        with open(self.server.log_path, errors="replace") as file:
            return file.read()


def target(url):
    """What a request for a URL names: path and query."""
    return urllib.parse.urlsplit(url)._replace(scheme="", netloc="").geturl()
