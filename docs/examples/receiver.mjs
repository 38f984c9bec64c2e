// Receives and verifies webhooks of codservice. Node 18 or newer, nothing else.
//
//     SECRET=whsec_… PORT=9000 node receiver.mjs        takes STORE, the file that keeps the deliveries

import { createHmac, timingSafeEqual } from "node:crypto";
import { closeSync, existsSync, fstatSync, fsyncSync, ftruncateSync, openSync } from "node:fs";
import { readFileSync, truncateSync, writeSync } from "node:fs";
import { createServer } from "node:http";

const { SECRET, PORT = "9000", STORE = "deliveries.jsonl" } = process.env;
const REPLAY_WINDOW = 300; // seconds that a delivery's timestamp may differ from our clock
const MAX_BODY = 1_048_576;
if (!/^whsec_[A-Za-z0-9+/]{32}/.test(SECRET ?? "")) { // anybody can sign with an empty one
  console.error("Set SECRET to the signing_secret of your webhook.");
  process.exit(1);
}

// Whether the service has signed this delivery with our secret, and within the last minutes. `body` is a Buffer.
function isOurs(headers, body) {
  const sentAt = headers["webhook-timestamp"] ?? "";
  if (!/^[0-9]+$/.test(sentAt) || Math.abs(Date.now() / 1000 - Number(sentAt)) > REPLAY_WINDOW) return false;
  const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
  const signed = Buffer.concat([Buffer.from(`${headers["x-service-delivery"] ?? ""}.${sentAt}.`), body]);
  const expected = Buffer.from("v1," + createHmac("sha256", key).update(signed).digest("base64"));
  // While a secret is changed there are two signatures; ours must be one of them.
  return (headers["webhook-signature"] ?? "").split(" ").some((signature) => {
    const sent = Buffer.from(signature);
    return sent.length === expected.length && timingSafeEqual(sent, expected);
  });
}

// The deliveries that were received, a line of JSON each; they are known after a restart.
const kept = existsSync(STORE) ? readFileSync(STORE) : Buffer.alloc(0);
const whole = kept.subarray(0, kept.lastIndexOf("\n") + 1);
if (whole.length < kept.length) truncateSync(STORE, whole.length); // half a line was never acknowledged: it comes again
const lines = whole.toString().split("\n").filter(Boolean);
const known = new Set(lines.map((line) => JSON.parse(line).delivery));

function keep(delivery, body) {
  if (known.has(delivery)) return false;
  const line = Buffer.from(JSON.stringify({ delivery, body: JSON.parse(body) }) + "\n");
  const file = openSync(STORE, "a");
  try {
    const { size } = fstatSync(file);
    if (writeSync(file, line) < line.length) {
      ftruncateSync(file, size);
      throw new Error("The disk is full.");
    }
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  known.add(delivery);
  return true;
}

async function receive(request, response) {
  const pieces = [];
  let length = 0;
  for await (const piece of request) {
    length += piece.length;
    if (length > MAX_BODY) return request.destroy();
    pieces.push(piece);
  }
  const body = Buffer.concat(pieces); // the raw bytes: these are signed
  if (request.method !== "POST" || !isOurs(request.headers, body)) return response.writeHead(401).end();
  const delivery = request.headers["x-service-delivery"];
  // An example that you asked for is signed too, but its order does not exist.
  const isNew = !JSON.parse(body).example && keep(delivery, body);
  response.writeHead(200).end(); // known ones too, or they would come again
  if (isNew) {
    console.log(request.headers["x-service-event"], delivery);
    // Here your shop wakes whoever works through STORE (it sends the parcel, or gives the stock free again) and notes
    // beside it what is done: what was stored when a program died does not come again.
  }
}

createServer((request, response) => {
  receive(request, response).catch((error) => {
    console.error(error.message); // such as that the sender has gone: it comes again
    response.destroy();
  });
}).listen(Number(PORT), "127.0.0.1");
