"""Do outside tools read our archives as we mean them?

    python interop.py FILE.warc.gz [FILE.cdxj]

Needs warcio and cdxj-indexer (PyPI). The index defaults to FILE.cdxj beside the archive; without
one, that comparison is left out. Prints one line a check; exits 1 if any failed.
"""

import base64
import contextlib
import hashlib
import io
import json
import os
import re
import sys
import tempfile
import zlib

import warcio.cli
from cdxj_indexer.main import CDXJIndexer

failures = 0


def verdict(name, problems, count):
    global failures
    problems = list(problems)
    failures += bool(problems)
    print(f"{'FAIL' if problems else 'ok  '} {name} ({count})")
    for problem in problems[:10]:
        print(f"       {problem}")


def run(main, *args):
    """Runs a command of a Python tool; gives its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(args))
        except SystemExit as exit:
            code = exit.code
        except Exception as error:  # a tool that gives up is a finding, not the end of the checks
            code = 1
            print(f"gave up: {error!r}"[:300], file=err)
    return code or 0, out.getvalue(), err.getvalue()


def members(data):
    """Walks the gzip members with zlib alone: (offset, length, plain bytes)."""
    offset, view = 0, memoryview(data)
    while offset < len(data):
        inflate, plain, fed = zlib.decompressobj(16 + zlib.MAX_WBITS), b"", offset
        while not inflate.eof:
            assert fed < len(data), f"member at {offset} is not whole"
            plain += inflate.decompress(view[fed : fed + 65536])
            fed = min(fed + 65536, len(data))
        length = fed - offset - len(inflate.unused_data)
        yield offset, length, plain
        offset += length


def parse(plain):
    """A record by the letter of the standard: fields and block."""
    head, _, rest = plain.partition(b"\r\n\r\n")
    lines = head.decode("utf-8").split("\r\n")
    assert lines[0] == "WARC/1.1", lines[0]
    fields = [tuple(line.split(": ", 1)) for line in lines[1:]]
    length = int(dict(fields)["Content-Length"])
    assert rest[length:] == b"\r\n\r\n", f"trailer {rest[length:][:20]!r}"
    return fields, rest[:length]


def digest(said, data):
    algorithm, _, value = said.partition(":")
    raw = hashlib.new(algorithm, data).digest()
    return value in (base64.b32encode(raw).decode(), raw.hex())


def dechunk(body):
    out, rest = b"", body
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        size = int(size.split(b";")[0], 16)
        if size == 0:
            break
        out, rest = out + rest[:size], rest[size + 2 :]
    return out


def payload(block):
    """The entity-body: transfer coding off, content coding on."""
    head, body = re.split(rb"\r?\n\r?\n", block, maxsplit=1)
    if re.search(rb"(?im)^transfer-encoding:\s*chunked\s*$", head):
        body = dechunk(body)
    return body


def records_problems(records):
    ids = {dict(fields)["WARC-Record-ID"] for _, _, fields, _ in records}
    for offset, _, fields, block in records:
        names = [name for name, _ in fields]
        field = dict(fields)
        repeatable = {"WARC-Concurrent-To", "WARC-Protocol"}
        for name in set(names) - repeatable:
            if names.count(name) > 1:
                yield f"{offset}: {name} repeated"
        for name in ("WARC-Type", "WARC-Record-ID", "WARC-Date", "Content-Type", "WARC-Block-Digest"):
            if name not in field:
                yield f"{offset}: no {name}"
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", field["WARC-Date"]):
            yield f"{offset}: WARC-Date {field['WARC-Date']}"
        if (field["WARC-Type"] == "warcinfo") == ("WARC-Target-URI" in field):
            yield f"{offset}: WARC-Target-URI"
        if not digest(field["WARC-Block-Digest"], block):
            yield f"{offset}: block digest"
        if "WARC-Payload-Digest" in field and field["WARC-Type"] == "response":
            if not digest(field["WARC-Payload-Digest"], payload(block)):
                yield f"{offset}: payload digest is not that of the entity-body"
        for name, value in fields:
            if name in ("WARC-Concurrent-To", "WARC-Warcinfo-ID", "WARC-Refers-To") and value not in ids:
                yield f"{offset}: {name} {value} leads nowhere"


def main():
    path = sys.argv[1]
    cdxj = sys.argv[2] if len(sys.argv) > 2 else re.sub(r"\.warc(\.gz)?$", ".cdxj", path)
    with open(path, "rb") as file:
        data = file.read()

    records = []
    problems = []
    try:
        for offset, length, plain in members(data):
            records.append((offset, length, *parse(plain)))
    except (AssertionError, ValueError, KeyError, zlib.error) as error:
        problems.append(f"after {len(records)} records: {error}")
    verdict("each gzip member is one whole record", problems, len(records))
    verdict("fields, digests and references hold", records_problems(records), len(records))

    code, out, err = run(warcio.cli.main, "check", "--verbose", path)
    failed = re.findall(r".*(?:failed|exception|unknown hash).*", out)
    # Its standard error also tells of bodies that servers packed wrongly, which is no fault of ours.
    failed += [line for line in err.splitlines() if "gave up" in line or "WARNING" in line]
    if code and not failed:
        failed = [f"exit code {code}"]
    verdict("warcio check", failed, out.count("digest pass"))

    fields = "offset,length,warc-type,warc-target-uri"
    code, out, err = run(warcio.cli.main, "index", "--fields", fields, path)
    theirs = [json.loads(line) for line in out.splitlines()]
    ours = [
        {"offset": str(offset), "length": str(length), "warc-type": dict(fields)["WARC-Type"]}
        | ({"warc-target-uri": uri} if (uri := dict(fields).get("WARC-Target-URI")) else {})
        for offset, length, fields, _ in records
    ]
    differ = [f"ours {a}, warcio {b}" for a, b in zip(ours, theirs) if a != b]
    if len(ours) != len(theirs):
        differ.append(f"{len(ours)} records, warcio finds {len(theirs)}")
    verdict("warcio index", differ + err.splitlines(), len(theirs))

    if os.path.exists(cdxj):
        with open(cdxj, encoding="ascii") as file:
            ours = set(file)
        with tempfile.NamedTemporaryFile("r", suffix=".cdxj") as theirs_file:
            index = CDXJIndexer(theirs_file.name, [path])
            code, _, err = run(lambda _: index.process_all())
            theirs = set(theirs_file)
        differ = [f"only ours: {line!r}" for line in sorted(ours - theirs)]
        differ += [f"only theirs: {line!r}" for line in sorted(theirs - ours)]
        verdict("cdxj-indexer", err.splitlines() + differ, len(theirs))

    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
