"""A real Neo4j for these tests: a process of its own, out of what Maven finds; started, killed and started again.

It is under the GPL: a test speaks to it as any client does, and nothing of it is linked or shipped.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from secrets import token_urlsafe

from neo4j import GraphDatabase, NotificationMinimumSeverity
from neo4j.exceptions import DriverError, Neo4jError

POM = Path(__file__).with_name("pom.xml")
SECONDS_TO_FETCH = 600
SECONDS_TO_START = 90
OPENED = ("java.lang", "java.nio", "java.io", "sun.nio.ch", "java.util.concurrent")
CONFIG = """\
server.default_listen_address=127.0.0.1
server.bolt.listen_address=127.0.0.1:{port}
server.bolt.advertised_address=127.0.0.1:{port}
server.http.enabled=false
server.https.enabled=false
server.memory.pagecache.size=64m
db.tx_log.preallocate=false
dbms.usage_report.enabled=false
dbms.security.auth_enabled=true
"""


def missing() -> list[str]:
    """Return which programs a server of our own would need."""
    return [name for name in ("java", "mvn") if shutil.which(name) is None]


def class_path(folder: Path) -> str:
    """Return what the server consists of; fetched the first time, from then on found on this machine."""
    target = folder / "classpath"
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(POM), "dependency:build-classpath"]
    command.append(f"-Dmdep.outputFile={target}")
    for more in (["--offline"], []):
        done = subprocess.run(
            [*command, *more], capture_output=True, text=True, timeout=SECONDS_TO_FETCH, check=False
        )
        if done.returncode == 0 and target.exists():
            return target.read_text().strip()
    raise RuntimeError(f"Maven did not find the server: {done.stdout[-2000:]}")


class Server:
    """A Neo4j on a folder of its own; port and password stay the same over restarts."""

    user = "neo4j"

    def __init__(self, folder: Path, jars: str) -> None:
        self.folder = folder
        self.password = token_urlsafe(16)
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "conf").mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        (folder / "conf" / "neo4j.conf").write_text(CONFIG.format(port=self._port))

    @property
    def url(self) -> str:
        return f"bolt://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and return as soon as it answers."""
        is_first = not (self.folder / "data").exists()
        opened = [f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in OPENED]
        command = ["java", "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", *opened]
        command += ["-Dfile.encoding=UTF-8", "-cp", self._jars, "org.neo4j.server.CommunityEntryPoint"]
        command += [f"--home-dir={self.folder}", f"--config-dir={self.folder / 'conf'}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._answers(is_first=is_first):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Neo4j did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def _answers(self, *, is_first: bool) -> bool:
        password = "neo4j" if is_first else self.password
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1):
                pass
            with GraphDatabase.driver(
                self.url,
                auth=(self.user, password),
                notifications_min_severity=NotificationMinimumSeverity.OFF,
                warn_notification_severity=NotificationMinimumSeverity.OFF,
            ) as driver:
                if is_first:
                    driver.execute_query(
                        "ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $password",
                        password=self.password,
                        database_="system",
                    )
                else:
                    driver.execute_query("RETURN 1", database_="neo4j")
        except (DriverError, Neo4jError, OSError):
            return False
        if is_first:
            return self._answers(is_first=False)
        return True

    def kill(self) -> None:
        """Kill it as nothing can prepare for; no harm where it is dead already."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)
        self._process = None


def real_server() -> tuple[str, str, str] | None:
    """Return address, user and password of a server to test against, if one is named."""
    url = os.environ.get("NEO4J_URI")
    if not url:
        return None
    return url, os.environ.get("NEO4J_USER", "neo4j"), os.environ.get("NEO4J_PASSWORD", "")
