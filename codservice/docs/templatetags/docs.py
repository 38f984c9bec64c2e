"""For pages that lead to the documentation."""

from django import template

from codservice.docs import library

register = template.Library()
register.simple_tag(library.address, name="docs_address")
