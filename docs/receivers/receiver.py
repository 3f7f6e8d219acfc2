"""Receives hand-offs: verifies the exact bytes, and stores each change once. Python 3.9 or later: python3 receiver.py
SECRET has the keys (whsec_..., one per line). PORT and DATABASE are optional."""
import base64, hashlib, hmac, json, os, sqlite3, time
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer

TEXTS = os.environ.get("SECRET", "").split()
if not TEXTS or not all(text.startswith("whsec_") for text in TEXTS):
    raise SystemExit("SECRET needs keys whsec_...")
KEYS = [base64.b64decode(text[len("whsec_"):]) for text in TEXTS]
MOST_BYTES = 16_000_000  # A batch has at most max_bytes, unless one change is larger.
db = sqlite3.connect(os.environ.get("DATABASE", "received.db"))
db.execute("""CREATE TABLE IF NOT EXISTS changes (generation TEXT, seq INTEGER, list TEXT, id TEXT, change TEXT,
  amount TEXT, PRIMARY KEY (generation, seq))""")


def is_signed(headers, body):
    id, at, given = (headers.get("webhook-" + name, "") for name in ("id", "timestamp", "signature"))
    if not (at.isascii() and at.isdigit()) or abs(time.time() - int(at)) > 300:
        return False
    text = f"{id}.{at}.".encode() + body
    own = [b"v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()) for key in KEYS]
    return any([hmac.compare_digest(one, other.encode()) for one in own for other in given.split(" ")])


def apply(body):
    batch = json.loads(body, parse_float=Decimal)  # Python's integers are exact
    with db:  # one transaction
        for change in batch["changes"]:
            amount = (change.get("after") or {}).get("amount")
            row = (batch["generation"], change["seq"], batch["list"], change["id"], change["change"],
                   None if amount is None else str(amount))
            if db.execute("INSERT OR IGNORE INTO changes VALUES (?, ?, ?, ?, ?, ?)", row).rowcount == 1:
                # A change that is no repeat: do what it means to you here, in the same transaction. After "erased", erase
                # the record.
                pass


class Receiver(BaseHTTPRequestHandler):
    timeout = 30  # A client that sends nothing must not block the others.

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or len(length) > 9 or int(length) > MOST_BYTES:
            return self.answer(413)
        body = self.rfile.read(int(length))
        if not is_signed(self.headers, body):
            return self.answer(401)
        apply(body)  # if it fails, the connection closes without an answer, and the sender repeats the batch
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8790"))), Receiver).serve_forever()
