// Reads deliveries as JSON lines {secret, headers, body (base64)}; writes what each library thinks of each.
import { createInterface } from "node:readline";
import { verify } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";

for await (const line of createInterface({ input: process.stdin })) {
  const { secret, headers, body: encoded } = JSON.parse(line);
  const body = Buffer.from(encoded, "base64").toString();
  let standard = true;
  try {
    new Webhook(secret).verify(body, headers);
  } catch {
    standard = false;
  }
  // GitHub calls the same header X-Hub-Signature-256.
  const octokit = await verify(secret, body, headers["X-Service-Signature"]);
  console.log(JSON.stringify({ standard, octokit }));
}
