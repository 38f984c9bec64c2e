import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

// Give it the raw body as a Buffer (Express: express.raw({ type: "application/json" })), x-service-signature and,
// where there is one, x-service-signature-previous.
export function isOurs(secret, body, ...signatures) {
  if (!secret) return false; // anybody can sign with an empty one
  const expected = Buffer.from("sha256=" + createHmac("sha256", secret).update(body).digest("hex"));
  return signatures.some((signature) => {
    const sent = Buffer.from(signature ?? "");
    return sent.length === expected.length && timingSafeEqual(sent, expected);
  });
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { SECRET, SIGNATURE, PREVIOUS } = process.env;
  process.exit(isOurs(SECRET, readFileSync(0), SIGNATURE, PREVIOUS) ? 0 : 1);
}
