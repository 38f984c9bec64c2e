// A shop's side with the types that openapi-typescript has generated, and openapi-fetch; docs/clients.md says how.
//
// node client.js 1042     sends the order of this number, finds it in the list, and cancels it; needs URL and KEY

import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const number = process.argv[2]!;
const client = createClient<paths>({
  baseUrl: process.env.URL!,
  headers: { Authorization: `Bearer ${process.env.KEY}` },
  fetch: (request) => fetch(request, { signal: AbortSignal.timeout(10_000) }), // or it may wait for ever
});

/** What was answered, unless the service has refused, or a proxy before it has answered. */
function done<Data>(answer: { data?: Data; error?: { message: string; errors?: Record<string, string[]> } }): Data {
  if (answer.data !== undefined) return answer.data;
  const message = answer.error?.message ?? "No answer that the description knows; send it again with the same key.";
  console.error(message, answer.error?.errors ?? "");
  process.exit(1);
}

const imported = done(
  await client.POST("/api/v1/orders", {
    // The same key for every attempt: however often it arrives, the order is imported once.
    params: { header: { "Idempotency-Key": `order-${number}` } },
    body: {
      external_id: number,
      customer_name: "Amine Benali",
      customer_phone: "0550 12 34 56",
      customer_address: "12 rue Didouche Mourad",
      customer_wilaya: "Alger",
      customer_commune: "Bab Ezzouar",
      total_amount: "4900.00",
      items: [{ product_name: "Robe kabyle", quantity: 1, unit_price: "4900.00" }],
    },
  }),
);
console.log("imported", imported.external_id, imported.status);

const listed = done(await client.GET("/api/v1/orders", { params: { query: { external_id: number } } }));
console.log("listed", listed.data.length, listed.data[0]?.id === imported.id);

const canceled = done(
  await client.POST("/api/v1/orders/{id}/cancel", {
    params: { path: { id: imported.id } },
    body: { reason: "Out of stock" },
  }),
);
console.log("canceled", canceled.status, canceled.cancel_reason);
