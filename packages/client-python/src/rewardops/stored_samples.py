"""Samples that the service has stored, as rows, tables and training data."""

from __future__ import annotations

import http.client
import json
import math
import os
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import IO, Any, Union
from urllib.parse import urlencode

from rewardops.answers import Later, read_answer
from rewardops.background import shared_loop
from rewardops.calls import MAX_BACKOFF_S, QUIET_S, Calls, log
from rewardops.errors import INVALID_INPUT, UNREACHABLE, RewardOpsError
from rewardops.http_answer import Answer, no_answer
from rewardops.scores import import_optional

#: Seconds without data after which an export is requested again; long, because a text search may take a while to find
#: the next sample.
SILENCE_S = 60.0
READ_BYTES = 1 << 18
FORMATS = ("jsonl", "csv", "parquet")
#: Columns that an export needs to resume.
KEY_COLUMNS = ("batchId", "index")
#: Columns that preference pairs and KTO rows need.
PAIR_COLUMNS = (*KEY_COLUMNS, "uid", "prompt", "response", "score", "status")

#: Text, or chat messages.
Text = Union[str, list[dict[str, Any]]]


class StoredSamples:
    """
    The samples that match a filter, in order of batch and index. Each method reads them from the service. Rows and tables
    have the column names of exports (docs/cli.md), such as `dataSource`.

        samples = client.samples(run="my-run", step="0-99")
        table = samples.to_pandas()
        pairs = datasets.Dataset.from_list(list(samples.preference_pairs()))

    Methods block; in asyncio, use `asyncio.to_thread`. If the connection breaks, they are retried for the client's
    `outage_s`. They raise RewardOpsError.
    """

    def __init__(
        self, calls: Calls, filter: Mapping[str, Any], columns: Sequence[str] | None, kept: bool
    ) -> None:
        self._calls = calls
        self._filter = {name: value for name, value in filter.items() if value is not None}
        self._columns = None if columns is None else list(columns)
        self._kept = kept

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._filter}>"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The samples as dicts. Prompts of chat messages are lists, and extra info is a dict."""
        return self._rows(self._columns)

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """
        Writes the samples to a file. `format`: "parquet", "jsonl" or "csv"; default: the name's extension. The file
        gets its name only when it is complete.
        """
        name = os.fspath(path)
        kind = format or os.path.splitext(name)[1][1:]
        if kind not in FORMATS:
            raise RewardOpsError(
                f"{kind!r} is not a format of exports.",
                reason=INVALID_INPUT,
                hint='Pass format="parquet", "jsonl" or "csv", or end the name with it.',
            )
        part = f"{name}.part"
        try:
            with open(part, "wb") as file:
                self._download(file, kind)
            os.replace(part, name)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with the types of a Parquet export: times are UTC, nested values are JSON text."""
        parquet = import_optional("pyarrow.parquet", "arrow")
        with tempfile.TemporaryFile() as file:
            self._download(file, "parquet")
            file.seek(0)
            return parquet.read_table(file)

    def to_pandas(self) -> Any:
        """The table of `to_arrow` as a `pandas.DataFrame`."""
        import_optional("pandas", "pandas")
        return self.to_arrow().to_pandas()

    def preference_pairs(
        self,
        margin: float = 0.0,
        *,
        pairs: str = "best_worst",
        conversational: bool | None = None,
    ) -> Iterator[dict[str, Any]]:
        """
        Preference pairs in the format of TRL: `prompt`, `chosen` and `rejected`, with `score_chosen`, `score_rejected` and the
        ids `chosen_sample` and `rejected_sample`. Both responses of a pair belong to one group. Pairs with equal scores
        or equal responses, failed samples and substituted scores are left out.

        `margin`: the least difference of the scores. `pairs`: "best_worst", at most one pair per group; or "all".
        `conversational`: prompts and responses are lists of messages (True), texts (False), or as the prompts were sent
        (None). Texts become messages of the roles user and assistant. One batch is in memory at a time.
        """
        if not (math.isfinite(margin) and margin >= 0):
            raise RewardOpsError(
                f"margin is {margin}; it must be 0 or greater.", reason=INVALID_INPUT
            )
        if pairs not in ("best_worst", "all"):
            raise RewardOpsError(
                f'pairs is {pairs!r}; it must be "best_worst" or "all".', reason=INVALID_INPUT
            )
        return self._pairs(margin, pairs == "all", _Form(conversational))

    def kto_rows(
        self, threshold: float, *, conversational: bool | None = None
    ) -> Iterator[dict[str, Any]]:
        """
        Rows for KTO in the format of TRL: `prompt`, `completion` and `label`, with `score` and the id `sample`. `label` is
        whether the score is at least `threshold`. Failed samples and substituted scores are left out. `conversational`: as in
        `preference_pairs`.
        """
        if not math.isfinite(threshold):
            raise RewardOpsError(
                f"threshold is {threshold}; it must be a finite number.", reason=INVALID_INPUT
            )
        return self._kto(threshold, _Form(conversational))

    def _pairs(self, margin: float, every: bool, form: _Form) -> Iterator[dict[str, Any]]:
        for group in self._groups():
            # Among samples with equal scores, the earlier sample comes first.
            ranked = sorted(group, key=lambda row: (-row["score"], row["index"]))
            lowest = min(group, key=lambda row: (row["score"], row["index"]))
            for at, chosen in enumerate(ranked if every else ranked[:1]):
                for rejected in ranked[at + 1 :] if every else [lowest]:
                    lead = chosen["score"] - rejected["score"]
                    if lead <= 0 or lead < margin or chosen["response"] == rejected["response"]:
                        continue
                    prompt, *texts = form.of(
                        chosen, chosen["prompt"], chosen["response"], rejected["response"]
                    )
                    yield {
                        "prompt": prompt,
                        "chosen": texts[0],
                        "rejected": texts[1],
                        "score_chosen": float(chosen["score"]),
                        "score_rejected": float(rejected["score"]),
                        "chosen_sample": _id(chosen),
                        "rejected_sample": _id(rejected),
                    }

    def _kto(self, threshold: float, form: _Form) -> Iterator[dict[str, Any]]:
        for row in self._scored():
            prompt, completion = form.of(row, row["prompt"], row["response"])
            yield {
                "prompt": prompt,
                "completion": completion,
                "label": row["score"] >= threshold,
                "score": float(row["score"]),
                "sample": _id(row),
            }

    def _scored(self) -> Iterator[dict[str, Any]]:
        """The samples that the reward scored, and whose texts were not removed."""
        for row in self._rows([*PAIR_COLUMNS, "substituted"]):
            if row["status"] == "scored" and not row["substituted"] and row["score"] is not None:
                if row["prompt"] is not None and row["response"] is not None:
                    yield row

    def _groups(self) -> Iterator[list[dict[str, Any]]]:
        """By group and prompt. In a batch, samples of different groups may be interleaved."""
        batch: str | None = None
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in self._scored():
            if row["batchId"] != batch:
                yield from groups.values()
                batch, groups = row["batchId"], {}
            key = row["uid"], json.dumps(row["prompt"], sort_keys=True)
            groups.setdefault(key, []).append(row)
        yield from groups.values()

    def _rows(self, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
        added = [name for name in KEY_COLUMNS if columns is not None and name not in columns]
        asked = None if columns is None else [*added, *columns]
        after: str | None = None
        outage = _Outage(self._calls)
        while True:
            try:
                for line in _lines(self._parts("jsonl", asked, after)):
                    row = json.loads(line)
                    after = _id(row)
                    outage.over()
                    for name in added:
                        del row[name]
                    yield row
                return
            except _Broken as broken:
                outage.wait(broken)

    def _download(self, file: IO[bytes], format: str) -> None:
        outage = _Outage(self._calls)
        while True:
            try:
                for part in self._parts(format, self._columns, None):
                    file.write(part)
                    outage.over()
                return
            except _Broken as broken:
                outage.wait(broken)
                file.seek(0)
                file.truncate()

    def _parts(
        self, format: str, columns: Sequence[str] | None, after: str | None
    ) -> Iterator[bytes]:
        """The bytes of an export. Raises _Broken where another attempt may help."""
        calls = self._calls
        # Checks URL, version and key. An outage after the check is retried for `outage_s`, so that a restart of the
        # service does not end the export.
        shared_loop().run(calls.checked())
        query: list[tuple[str, str]] = [("format", format)]
        for name, value in self._filter.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                query.append((name, str(one).lower() if isinstance(one, bool) else str(one)))
        if columns is not None:
            escaped = [name.replace("%", "%25").replace(",", "%2C") for name in columns]
            query.append(("columns", ",".join(escaped)))
        if self._kept:
            query.append(("texts", "kept"))
        if after is not None:
            query.append(("after", after))
        address = calls.address
        if address.https:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                address.host,
                address.port,
                timeout=SILENCE_S,
                context=calls.ssl_context or ssl.create_default_context(),
            )
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=SILENCE_S)
        with closing(connection):
            try:
                path = f"{address.base}/api/export/samples?{urlencode(query)}"
                connection.request("GET", path, headers=calls.headers())
                answer = connection.getresponse()
                if answer.status != 200:
                    headers = {name.lower(): value for name, value in answer.getheaders()}
                    refusal = read_answer(
                        address.url, "export", Answer(answer.status, headers, answer.read())
                    )
                    if isinstance(refusal, Later):
                        raise _Broken(refusal.error, refusal.wait_s)
                while part := answer.read1(READ_BYTES):
                    yield part
            except (OSError, http.client.HTTPException) as error:
                detail = no_answer(error, SILENCE_S, SILENCE_S).detail
                raise _Broken(
                    RewardOpsError(
                        f"The export from {address.url} broke off: {detail}.", reason=UNREACHABLE
                    ),
                    None,
                ) from None


class _Broken(Exception):
    """An export ended early. `wait_s`: the delay that the service requests."""

    def __init__(self, error: RewardOpsError, wait_s: float | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait_s = wait_s


class _Outage:
    """Waits between attempts until no data has arrived for the client's `outage_s`."""

    def __init__(self, calls: Calls) -> None:
        self._outage_s = calls.outage_s
        self.over()

    def over(self) -> None:
        self._since = time.monotonic()
        self._tries = 0
        self._warned = False

    def wait(self, broken: _Broken) -> None:
        silent_s = time.monotonic() - self._since
        if silent_s > self._outage_s:
            raise broken.error from None
        if not self._warned and silent_s > QUIET_S:
            self._warned = True
            log.warning("%s Retrying for up to %g s.", broken.error, self._outage_s)
        self._tries += 1
        time.sleep(broken.wait_s or min(MAX_BACKOFF_S, 0.05 * 2 ** min(self._tries, 10)))


class _Form:
    """The form of a data set: messages or texts, the same in all rows, because a data set has one type per column."""

    def __init__(self, conversational: bool | None) -> None:
        self._given = conversational
        self._seen: bool | None = None

    def of(self, row: Mapping[str, Any], prompt: Text, *responses: Text) -> list[Text]:
        has_messages = any(not isinstance(text, str) for text in (prompt, *responses))
        if self._given is False and has_messages:
            raise RewardOpsError(
                f"Sample {_id(row)} has chat messages, which only a chat template can turn into text.",
                reason=INVALID_INPUT,
                hint="Pass conversational=True; TRL applies the model's chat template.",
            )
        if self._seen is None:
            self._seen = has_messages
        if self._given is None and has_messages != self._seen:
            raise RewardOpsError(
                f"Sample {_id(row)} has {'messages' if has_messages else 'texts'}, and earlier samples do not.",
                reason=INVALID_INPUT,
                hint="Pass conversational=True, so that all rows have messages.",
            )
        if self._given is not True and not has_messages:
            return [prompt, *responses]
        return [_messages(prompt, "user"), *(_messages(text, "assistant") for text in responses)]


def _messages(text: Text, role: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": text}] if isinstance(text, str) else text


def _id(row: Mapping[str, Any]) -> str:
    return f"{row['batchId']}-{row['index']}"


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
