<?php
// A small shop's side of codservice. PHP 8.0 or newer, with openssl (for https).
//
//     php shop.php import orders.json        sends the orders of a file; needs URL and KEY
//     php -S 127.0.0.1:9000 shop.php         listens for webhooks; needs SECRET and STORE, a file outside the web root

const ATTEMPTS = 6;
const REPLAY_WINDOW = 300; // seconds that a delivery's timestamp may differ from our clock

// Sends one order, again and again until it is known to be imported. Gives [status, body]; status 0 is no answer.
function import_order(object $order): array
{
    $sent = json_encode($order);
    $options = ['http' => [
        'method' => 'POST',
        'header' => [
            'Authorization: Bearer ' . getenv('KEY'),
            'Content-Type: application/json',
            // The same for every attempt: however often it arrives, the order is imported once. One that was refused
            // and corrected has another; by its external_id it too is imported once.
            'Idempotency-Key: order-' . hash('sha256', $sent),
        ],
        'content' => $sent,
        'ignore_errors' => true, // a 4xx is an answer too
        'follow_location' => 0,
        'timeout' => 10,
    ]];
    for ($attempt = 0; $attempt < ATTEMPTS; $attempt++) {
        $answer = @fopen(getenv('URL') . '/api/v1/orders', 'rb', false, stream_context_create($options));
        $body = $answer ? stream_get_contents($answer) : false;
        $headers = $answer ? implode("\n", stream_get_meta_data($answer)['wrapper_data']) : '';
        $status = preg_match('~^HTTP/\S+ (\d{3})~', $headers, $found) ? (int) $found[1] : 0;
        // Half of an answer is none.
        if ($status < 300 && (!is_string($body) || json_decode($body) === null)) {
            $status = 0;
        }
        if ($status !== 0 && !in_array($status, [408, 409, 429], true) && $status < 500) {
            return [$status, $body];
        }
        $wait = preg_match('~^Retry-After: (\d+)~mi', $headers, $found) ? max(1, (int) $found[1])
            : 2 ** $attempt + mt_rand() / mt_getrandmax();
        if ($attempt < ATTEMPTS - 1) {
            fprintf(STDERR, "%s: %d %s; again in %d s\n", $order->external_id, $status, $body, $wait);
            usleep((int) ($wait * 1_000_000));
        }
    }
    return [$status, $body];
}

// The id of the order that has this external_id, if nothing else is wrong with the one that was refused.
function already_there(string $refusal): ?string
{
    return preg_match('~Order (\S+) has this external_id~', $refusal, $found)
        && array_keys((array) json_decode($refusal)->errors) === ['external_id'] ? $found[1] : null;
}

function import_file(string $path): int
{
    $failed = 0;
    // Not as arrays: of those that are empty PHP does not know whether they were lists or objects.
    $orders = json_decode((string) @file_get_contents($path));
    if (!is_array($orders)) {
        fprintf(STDERR, "%s cannot be read as a list of orders: %s\n", $path, json_last_error_msg());
        return 1;
    }
    foreach ($orders as $index => $order) {
        if (!isset($order->external_id) || $order->external_id === '') { // it might be imported twice
            fprintf(STDERR, "order %d has no external_id; not sent\n", $index + 1);
            $failed++;
            continue;
        }
        [$status, $body] = import_order($order);
        if ($status === 401 || $status === 403) {
            fprintf(STDERR, "The key is refused, no more orders are sent: %d %s\n", $status, $body);
            return 1;
        }
        $id = $status === 201 ? json_decode($body)->id : already_there((string) $body);
        if ($id !== null) {
            echo $order->external_id, ' ', $id, "\n";
        } else {
            fprintf(STDERR, "%s: %d %s\n", $order->external_id, $status, $body);
            $failed++;
        }
    }
    return $failed ? 1 : 0;
}

// Whether the service has signed this delivery with this secret, and within the last minutes.
function is_ours(string $secret, array $headers, string $body): bool
{
    $sent_at = $headers['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    if (!ctype_digit($sent_at) || abs(time() - (int) $sent_at) > REPLAY_WINDOW) {
        return false;
    }
    $signed = ($headers['HTTP_X_SERVICE_DELIVERY'] ?? '') . ".$sent_at.$body";
    $key = base64_decode(substr($secret, strlen('whsec_')));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', $signed, $key, true));
    // While a secret is changed there are two signatures; ours must be one of them.
    foreach (explode(' ', $headers['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $signature) {
        if (hash_equals($expected, $signature)) {
            return true;
        }
    }
    return false;
}

// Keeps a delivery as a line of JSON; false when it is known. Knows all since the file was made.
function keep(string $delivery, string $body): bool
{
    $file = fopen(getenv('STORE'), 'a+');
    flock($file, LOCK_EX);
    rewind($file);
    $end = 0; // of the last whole line
    while (($line = fgets($file)) !== false && str_ends_with($line, "\n")) {
        if ((json_decode($line)->delivery ?? null) === $delivery) {
            return false;
        }
        $end = ftell($file);
    }
    ftruncate($file, $end); // half a line was never acknowledged: it comes again
    $line = json_encode(['delivery' => $delivery, 'body' => json_decode($body)]) . "\n";
    if (fwrite($file, $line) !== strlen($line) || !fflush($file)) {
        throw new RuntimeException('The delivery cannot be kept.');
    }
    if (function_exists('fsync')) { // PHP 8.1
        fsync($file);
    }
    return fclose($file); // and gives the lock back
}

function receive(): void
{
    http_response_code(500); // unless all goes well
    if (!preg_match('~^whsec_[A-Za-z0-9+/]{32}~', (string) getenv('SECRET'))) { // anybody can sign with an empty one
        error_log('Set SECRET to the signing_secret of your webhook.');
        return;
    }
    if (!getenv('STORE')) { // a default would lie beside this script, where Apache or FPM serves it to anybody
        error_log('Set STORE to a file outside the web root.');
        return;
    }
    $body = file_get_contents('php://input'); // the raw bytes: these are signed
    if ($_SERVER['REQUEST_METHOD'] !== 'POST' || !is_ours(getenv('SECRET'), $_SERVER, $body)) {
        http_response_code(401);
        return;
    }
    // A known one is acknowledged too, or it would come again; and an example, but its order does not exist.
    if (empty(json_decode($body)->example) && keep($_SERVER['HTTP_X_SERVICE_DELIVERY'], $body)) {
        error_log($_SERVER['HTTP_X_SERVICE_EVENT'] . ' ' . $_SERVER['HTTP_X_SERVICE_DELIVERY']);
        // Here your shop wakes whoever works through STORE (it sends the parcel, or gives the stock free again) and
        // notes beside it what is done: what was stored when a program died does not come again.
    }
    http_response_code(200);
}

if (PHP_SAPI !== 'cli') {
    receive();
} elseif (realpath($_SERVER['SCRIPT_FILENAME']) === __FILE__) { // run, not required
    if ($argc !== 3 || $argv[1] !== 'import') {
        exit("php shop.php import orders.json\nSTORE=deliveries.jsonl php -S 127.0.0.1:9000 shop.php\n");
    }
    exit(import_file($argv[2]));
}
