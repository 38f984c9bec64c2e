from django.contrib import admin
from django.urls import path

admin.autodiscover()  # here and not in `ready()`: workers, beat and commands show no pages
urlpatterns = [path("", admin.site.urls)]
