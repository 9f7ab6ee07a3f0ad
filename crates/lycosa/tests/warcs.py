"""What is in these WARC files, by an outside reader?

    python warcs.py [--killed] FILE.warc.gz...

Prints one JSON line for every record of type response, revisit and metadata, and one for every file.
Needs warcio (PyPI), and zlib for the cutting. With --killed the writer died a moment ago: a file
may end in a member that is not whole, which is counted; all before it must be readable still.
Digests are checked. Exits 1 if a file is damaged otherwise.
"""

import io
import json
import sys
import zlib

from warcio.archiveiterator import ArchiveIterator


def whole_members(data):
    """Bytes up to the end of the last whole gzip member."""
    view, offset = memoryview(data), 0
    while offset < len(data):
        inflate, fed = zlib.decompressobj(16 + zlib.MAX_WBITS), offset
        while not inflate.eof:
            if fed >= len(data):
                return offset
            inflate.decompress(view[fed : fed + 65536])
            fed = min(fed + 65536, len(data))
        offset = fed - len(inflate.unused_data)
    return offset


def visit_of(block):
    for line in block.splitlines():
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"visit":
            return value.strip().decode()
    return None


def read(path, killed):
    with open(path, "rb") as file:
        data = file.read()
    end = whole_members(data)
    if end < len(data) and not killed:
        raise ValueError(f"{len(data) - end} bytes at the end are no whole record")
    records = 0
    for record in ArchiveIterator(io.BytesIO(data[:end]), check_digests="raise"):
        kind, header = record.rec_type, record.rec_headers
        block = record.content_stream().read()
        records += 1
        if kind not in ("response", "revisit", "metadata"):
            continue
        line = {"type": kind, "url": header.get_header("WARC-Target-URI")}
        if kind != "metadata":
            line["status"] = int(record.http_headers.get_statuscode())
            line["truncated"] = header.get_header("WARC-Truncated")
            line["id"] = header.get_header("WARC-Record-ID")
            line["date"] = header.get_header("WARC-Date")
            line["digest"] = header.get_header("WARC-Payload-Digest")
            if kind == "revisit":
                line["profile"] = header.get_header("WARC-Profile").rpartition("/")[2]
                line["refers_to"] = header.get_header("WARC-Refers-To")
                line["refers_to_url"] = header.get_header("WARC-Refers-To-Target-URI")
                line["refers_to_date"] = header.get_header("WARC-Refers-To-Date")
                line["block"] = len(block)
        else:
            line["visit"] = visit_of(block)
        print(json.dumps(line))
    print(json.dumps({"type": "file", "file": path, "records": records, "tail": len(data) - end}))


def main():
    arguments = sys.argv[1:]
    killed = "--killed" in arguments
    damaged = False
    for path in arguments:
        if path.startswith("--"):
            continue
        try:
            read(path, killed)
        except Exception as error:  # whatever warcio raises is the finding
            damaged = True
            print(f"{path}: {error!r}", file=sys.stderr)
    sys.exit(damaged)


main()
