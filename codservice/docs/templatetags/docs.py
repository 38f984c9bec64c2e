"""A tag for pages that link to the documentation."""

from django import template

from codservice.docs import library

register = template.Library()
register.simple_tag(library.address, name="docs_address")
