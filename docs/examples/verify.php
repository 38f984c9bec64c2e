<?php
// Give it file_get_contents('php://input') and $_SERVER['HTTP_X_SERVICE_SIGNATURE'], and where there is one
// $_SERVER['HTTP_X_SERVICE_SIGNATURE_PREVIOUS'].
function is_ours(string $secret, string $body, ?string ...$signatures): bool
{
    $expected = 'sha256=' . hash_hmac('sha256', $body, $secret);
    foreach ($signatures as $signature) {
        // Anybody can sign with an empty secret.
        if ($secret !== '' && $signature !== null && hash_equals($expected, $signature)) {
            return true;
        }
    }
    return false;
}

if (PHP_SAPI === 'cli' && realpath($_SERVER['SCRIPT_FILENAME']) === __FILE__) { // run, not required
    $signatures = array_map(fn ($name) => getenv($name) ?: null, ['SIGNATURE', 'PREVIOUS']);
    exit(is_ours(getenv('SECRET'), file_get_contents('php://stdin'), ...$signatures) ? 0 : 1);
}
