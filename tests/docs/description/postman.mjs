// Converts the OpenAPI description on standard input into a Postman collection on standard output.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { convertV2 } = createRequire(import.meta.url)("openapi-to-postmanv2");
const options = {
  folderStrategy: "Tags",
  alwaysInheritAuthentication: true,
  enableOptionalParameters: false,
};
convertV2({ type: "string", data: readFileSync(0, "utf8") }, options, (error, { result, reason, output }) => {
  if (error || !result) throw error ?? new Error(reason);
  process.stdout.write(JSON.stringify(output[0].data));
});
