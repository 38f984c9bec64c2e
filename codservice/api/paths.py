"""The `<id:…>` of URL patterns: a UUID with dashes, in either case. Any other form matches no path (404)."""

from django.urls import register_converter
from django.urls.converters import UUIDConverter


class CanonicalUUIDConverter(UUIDConverter):
    regex = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"


register_converter(CanonicalUUIDConverter, "id")
