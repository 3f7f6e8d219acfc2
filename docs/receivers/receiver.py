"""Receives hand-offs: verifies the exact bytes, and stores each change once. Python 3.9 or later: python3 receiver.py
SECRET has the keys (whsec_..., one per line). PORT and DATABASE are optional."""
import base64, hashlib, hmac, json, os, sqlite3, time
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer

KEYS = [base64.b64decode(key.replace("whsec_", "", 1)) for key in os.environ["SECRET"].split()]
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
                pass  # A change that is no repeat: do what it means to you here, in the same transaction.


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        status = 401
        if is_signed(self.headers, body):
            apply(body)  # if it fails, the connection closes without an answer, and the sender repeats the batch
            status = 204
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8790"))), Receiver).serve_forever()
